/**
 * Where groups can be, by code. A server on one machine is at all of them; programs that provision databases ask for
 * the places they will have later.
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

/** What a database's region is called where it is reached without TLS: the vendor's command line goes by it. */
export const LOCAL = 'local'

export function isLocation(code: string): boolean {
  return Object.hasOwn(LOCATIONS, code)
}

/** Who runs a location. */
export function providerOf(code: string): string {
  return code.startsWith('aws-') ? 'aws' : 'local'
}
