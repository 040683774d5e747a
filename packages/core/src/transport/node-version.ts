/** Returns why a version of Node is unsupported; null if it is supported. The minimum is the one required by undici 8. */
export function unsupportedNode(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > 22 || (major === 22 && minor >= 19)) return null
  return `@batonsql/core requires node 22.19 or newer, but this is node ${version}`
}
