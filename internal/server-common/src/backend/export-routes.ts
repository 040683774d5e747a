/** Whether a path exports a database as a file. */
export function isExportRoute(path: string): boolean {
  return /^\/(?:info|export\/\d+|sync\/\d+\/\d+\/\d+)$/.test(path)
}
