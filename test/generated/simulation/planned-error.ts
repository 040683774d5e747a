/** An error that the program throws itself. */
export class PlannedError extends Error {}
