/* The cheapest object that can be preloaded: what any preload costs, whatever is in it. */
void gpufence_cost_empty(void);
void gpufence_cost_empty(void) {}
