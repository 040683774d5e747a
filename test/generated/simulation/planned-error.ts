/** An error thrown by the program itself. */
export class PlannedError extends Error {}
