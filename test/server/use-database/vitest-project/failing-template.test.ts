import { useDatabase } from '@batonsql/local-server/testing'
import { test } from 'vitest'

useDatabase({
  template: function makeTables() {
    throw new Error('no tables today')
  },
})
test('one', () => {})
test('two', () => {})
