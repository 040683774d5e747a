// A fault proxy as a separate process: node fault-proxy-process.ts URL SEED. Sends its address to its parent.
import { randomFault } from '../generated/faults/accounting.ts'
import { FaultProxy } from './fault-proxy.ts'
import { seeded } from './random.ts'

const [url = '', seed = '1'] = process.argv.slice(2)
const proxy = await FaultProxy.start(url)
const random = seeded(Number(seed))
proxy.next = (body) => randomFault(random, body, true)
process.on('disconnect', () => process.exit())
process.send?.(proxy.url)
