/** A statement in a message, cut. */
export const quote = (sql = ''): string => `"${sql.length > 60 ? `${sql.slice(0, 60)}…` : sql}"`
