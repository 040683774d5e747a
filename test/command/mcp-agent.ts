import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { afterAll } from 'vitest'
import { batonCommand, batonEnv } from '../support/baton-command.ts'

/** The result of a tool: the JSON of its text, or the text of its error. */
interface ToolResult {
  // oxlint-disable-next-line typescript/no-explicit-any -- each test reads the fields that it expects
  readonly value?: any
  readonly error?: string
}

/** An agent: the client of the MCP SDK, connected to `baton mcp`. */
export interface Agent {
  readonly client: Client
  call(tool: string, input?: Record<string, unknown>): Promise<ToolResult>
}

/** Starts `baton mcp` for the tests of a file. */
export async function startAgent(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Agent> {
  const agent = await connectAgent(args, env)
  afterAll(() => agent.client.close())
  return agent
}

/** Starts `baton mcp`; the caller closes its client. */
export async function connectAgent(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Agent> {
  const [command, ...commandArgs] = batonCommand(['mcp', ...args]) as [string, ...string[]]
  const client = new Client({ name: 'test', version: '1' })
  const environment = Object.entries(batonEnv(env)).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  await client.connect(
    new StdioClientTransport({ command, args: commandArgs, env: Object.fromEntries(environment) }),
  )
  return {
    client,
    async call(tool, input = {}) {
      const { content, isError } = await client.callTool({ name: tool, arguments: input })
      const [{ text } = { text: '' }] = content as { text: string }[]
      return isError === true ? { error: text } : { value: JSON.parse(text) }
    },
  }
}
