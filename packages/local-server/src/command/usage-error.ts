/** The command line asks for something that does not exist, or leaves something out. Ends with exit code 2. */
export class UsageError extends Error {}
