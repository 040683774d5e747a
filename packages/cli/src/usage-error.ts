/** The command line is invalid. Its message is printed as it is, so it begins with `baton`. The exit code is 2. */
export class UsageError extends Error {}
