// Run by `node --test`. Both tests fail.
import { test } from 'node:test'
import { useDatabase } from '@batonsql/local-server/testing'

useDatabase({
  template: function makeTables() {
    throw new Error('no tables today')
  },
})
void test('one', () => {})
void test('two', () => {})
