import { installSqld } from '../sqld/install.ts'

/** Puts libsql-server where the back end `sqld` finds it. */
export async function runInstallSqld(): Promise<void> {
  console.log(`libsql-server is at ${await installSqld()}`)
}
