/** Whether a path is one of those by which a database is fetched as a file. */
export function isExportRoute(path: string): boolean {
  return /^\/(?:info|export\/\d+|sync\/\d+\/\d+\/\d+)$/.test(path)
}
