import { BlockList, isIP } from 'node:net'
import { ApiError } from '../api-error.ts'

const MAPPED_IPV4_PREFIX = '::ffff:'

/** Checks a list of addresses, and of networks such as `10.0.0.0/8`. @throws ApiError for any other entry */
export function checkAllowedIps(list: readonly string[]): void {
  for (const text of list) {
    if (readNetwork(text) === null)
      throw new ApiError(400, `invalid IP address or network: ${text.slice(0, 60)}`)
  }
}

/** Whether an address is allowed. An empty list allows all addresses; clients in this process have no address. */
export function isAddressAllowed(list: readonly string[], address: string | undefined): boolean {
  if (list.length === 0 || address === undefined) return true
  // dual-stack sockets report IPv4 addresses in this form
  const plain = address.startsWith(MAPPED_IPV4_PREFIX) ? address.slice(MAPPED_IPV4_PREFIX.length) : address
  const allowedNetworks = new BlockList()
  for (const text of list) {
    const network = readNetwork(text)
    if (network !== null) allowedNetworks.addSubnet(network.address, network.bits, network.family)
  }
  return allowedNetworks.check(plain, getFamily(plain))
}

function readNetwork(text: string): { address: string; bits: number; family: 'ipv4' | 'ipv6' } | null {
  const [address = '', bits, ...extraParts] = text.split('/')
  if (isIP(address) === 0 || extraParts.length > 0) return null
  const family = getFamily(address)
  const maxBits = family === 'ipv4' ? 32 : 128
  if (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= maxBits)) return null
  return { address, bits: bits === undefined ? maxBits : Number(bits), family }
}

function getFamily(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4'
}
