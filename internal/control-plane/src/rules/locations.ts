import { ApiError } from '../api-error.ts'

/**
 * Locations of groups, by code. A local server pretends to be in all of them, so that programs can provision databases in the
 * locations that they will use later.
 */
export const LOCATIONS: Readonly<Record<string, string>> = {
  local: 'This machine',
  ams: 'Amsterdam, Netherlands',
  fra: 'Frankfurt, Germany',
  iad: 'Ashburn, Virginia (US)',
  lhr: 'London, United Kingdom',
  nrt: 'Tokyo, Japan',
  syd: 'Sydney, Australia',
  'aws-eu-west-1': 'AWS EU West (Ireland)',
  'aws-us-east-1': 'AWS US East (Virginia)',
  'aws-us-west-2': 'AWS US West (Oregon)',
  'aws-ap-northeast-1': 'AWS AP Northeast (Tokyo)',
  'aws-ap-south-1': 'AWS AP South (Mumbai)',
}

/** Code of the location that is this machine. The vendor's CLI reaches databases in it without TLS, and all others with TLS. */
export const LOCAL = 'local'

export function isLocation(code: string): boolean {
  return Object.hasOwn(LOCATIONS, code)
}

/** Checks the code of a location. @throws ApiError if it is unknown */
export function checkLocation(code: string): void {
  if (!isLocation(code)) throw new ApiError(400, `invalid location: ${code.slice(0, 40)}`)
}

export function getProvider(code: string): string {
  return code.startsWith('aws-') ? 'aws' : 'local'
}
