import { once } from 'node:events'
import type { CommandInput } from '../command-context.ts'
import { openDatabase, readTarget, toDatabaseUrl } from '../database-address.ts'
import { loadPeer } from '../load-peer.ts'
import type { MCP_OPTIONS } from '../option-table.ts'
import { PACKAGE_VERSION } from '../package-version.ts'
import { InspectorClient } from './inspector-client.ts'
import { registerTools } from './tools.ts'

const MISSING_SDK =
  'the MCP SDK is not installed: add it with `npm install --save-dev @batonsql/cli @modelcontextprotocol/sdk zod`, or run `npx -p @batonsql/cli -p @modelcontextprotocol/sdk -p zod baton mcp`'
const MISSING_ZOD = 'zod is not installed: add it with `npm install --save-dev zod`'

/** Serves a database to an agent on standard input and output, until the input ends. */
export async function runMcp({ values, operands, context }: CommandInput<typeof MCP_OPTIONS>): Promise<void> {
  const { input, signal } = context
  const { target } = readTarget(operands, 0, context)
  const [{ McpServer }, { StdioServerTransport }] = await loadPeer(
    () =>
      Promise.all([
        import('@modelcontextprotocol/sdk/server/mcp.js'),
        import('@modelcontextprotocol/sdk/server/stdio.js'),
      ]),
    '@modelcontextprotocol/sdk',
    MISSING_SDK,
  )
  const z = await loadPeer(() => import('zod'), 'zod', MISSING_ZOD)
  const db = openDatabase(target, values, context, { intMode: 'bigint' })
  const inspector = InspectorClient.forUrl(toDatabaseUrl(target))
  const server = new McpServer({ name: 'baton', version: PACKAGE_VERSION })
  try {
    registerTools(server, { z, db, inspector, mayWrite: values.write ?? false })
    const inputEnded = once(input, 'end', { signal })
    await server.connect(new StdioServerTransport())
    await inputEnded
  } finally {
    await server.close()
    inspector?.close()
    await db.close()
  }
}
