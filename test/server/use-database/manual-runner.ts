import type { TestHooks } from '@batonsql/local-server/testing'
import { onTestFinished } from 'vitest'

const noop = async (): Promise<void> => {}

/** A test runner whose hooks are called manually. */
export class ManualRunner {
  readonly #callbacks = { beforeAll: noop, beforeEach: noop, afterEach: noop, afterAll: noop }
  readonly hooks: TestHooks = {
    beforeAll: (callback) => (this.#callbacks.beforeAll = callback),
    beforeEach: (callback) => (this.#callbacks.beforeEach = callback),
    afterEach: (callback) => (this.#callbacks.afterEach = callback),
    afterAll: (callback) => (this.#callbacks.afterAll = callback),
  }

  begin = async (): Promise<void> => {
    onTestFinished(() => this.#callbacks.afterAll())
    await this.#callbacks.beforeAll()
  }

  beginTest = (): Promise<void> => this.#callbacks.beforeEach()
  endTest = (): Promise<void> => this.#callbacks.afterEach()
  end = (): Promise<void> => this.#callbacks.afterAll()
}
