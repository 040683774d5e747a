import { afterAll } from 'vitest'
import { killRunningProcesses } from './baton-command.ts'
import { closeTestServers } from './test-server.ts'

// Registers the hooks for each file of a project whose files share a process, which evaluates other modules only once.
afterAll(killRunningProcesses)
afterAll(closeTestServers)
