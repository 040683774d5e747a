import { afterAll } from 'vitest'
import { endRunning } from './baton-command.ts'
import { closeTestServers } from './test-server.ts'

// For each file of a project whose files share a process: a module is evaluated, and its hooks are registered, only once there.
afterAll(endRunning)
afterAll(closeTestServers)
