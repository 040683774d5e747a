/** What a program throws by itself. */
export class PlannedError extends Error {}
