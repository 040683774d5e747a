import { loadPeer } from './load-peer.ts'

const MISSING =
  'the local server is not installed: add it with `npm install --save-dev @batonsql/cli @batonsql/local-server`, or run `npx -p @batonsql/cli -p @batonsql/local-server baton`'

/** Imports an entry point of the local server, an optional peer dependency. @throws Error that explains how to install it */
export const loadServer = <Entry>(load: () => Promise<Entry>): Promise<Entry> =>
  loadPeer(load, '@batonsql/local-server', MISSING)
