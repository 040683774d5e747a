/** Why a version of node cannot run this package; null when it can. The oldest that can is that of undici 8. */
export function refusalOf(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > 22 || (major === 22 && minor >= 19)) return null
  return `@batonsql/core needs node 22.19 or newer, and this is node ${version}`
}
