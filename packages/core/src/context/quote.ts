/** A statement in a message, cut. */
export const quote = (sql = '', length = 60): string =>
  `"${sql.length > length ? `${sql.slice(0, length)}…` : sql}"`
