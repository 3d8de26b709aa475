/* What is preloaded, needed or looked for in these tests only has to be there. */
int gpufence_command_standin;
