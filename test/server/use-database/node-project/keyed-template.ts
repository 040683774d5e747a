// Run by `node --test`, as two files at the same time. LOG gets a line for each process and for each run of the template.
import assert from 'node:assert/strict'
import { appendFileSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { createClient } from '@batonsql/core'
import { useDatabase } from '@batonsql/local-server/testing'

const { LOG = '', PROCESSES = '1', IS_KILLED } = process.env
const countStarts = (): number => readFileSync(LOG, 'utf8').split('started').length - 1
appendFileSync(LOG, 'started\n')

const database = useDatabase({
  template: {
    key: 'notes',
    create: async (config) => {
      appendFileSync(LOG, 'made\n')
      if (IS_KILLED !== undefined) process.kill(process.pid, 'SIGKILL')
      // both processes need the template at the same time
      while (countStarts() < Number(PROCESSES)) await setTimeout(5)
      const db = createClient(config)
      await db.execute('create table note (text)')
      await db.close()
    },
  },
})

void test('has the table', async () => {
  const db = createClient(database.config)
  assert.deepEqual((await db.execute('select * from note')).rows, [])
  await db.close()
})
