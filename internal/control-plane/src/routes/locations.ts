import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import { getProvider, isLocation, LOCATIONS } from '../rules/locations.ts'
import { ANY_READER } from './access.ts'
import type { Call } from './call.ts'
import { documented, ORGANIZATION_V2, type Route, returns, undocumented } from './route.ts'

const Descriptions = v.record(v.string(), v.string())
const Location = v.object({
  code: v.string(),
  description: v.string(),
  closest: v.array(v.string()),
})
const BY_PROVIDER = returns({ locations: v.record(v.string(), Descriptions) })

export const locationRoutes: readonly Route[] = [
  documented('GET /v1/locations', ANY_READER, returns({ locations: Descriptions }), () => ({
    locations: LOCATIONS,
  })),
  undocumented('GET /v1/locations/:location', ANY_READER, returns({ location: Location }), describeLocation),
  undocumented(`GET ${ORGANIZATION_V2}/locations`, 'read', BY_PROVIDER, listLocationsByProvider),
]

function describeLocation(call: Call) {
  const code = call.param('location')
  if (!isLocation(code)) throw new ApiError(404, `invalid location: ${code.slice(0, 40)}`)
  return { location: { code, description: LOCATIONS[code], closest: [] } }
}

function listLocationsByProvider() {
  const locations: Record<string, Record<string, string>> = {}
  for (const [code, description] of Object.entries(LOCATIONS)) {
    const provider = getProvider(code)
    locations[provider] = { ...locations[provider], [code]: description }
  }
  return { locations }
}
