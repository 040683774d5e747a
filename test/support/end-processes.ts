import { afterAll } from 'vitest'
import { killRunning } from './baton-command.ts'
import { closeTestServers } from './test-server.ts'

// Registers hooks for each file of a project whose files share a process, where a module is evaluated only once.
afterAll(killRunning)
afterAll(closeTestServers)
