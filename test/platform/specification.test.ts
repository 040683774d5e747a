import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { NOT_REPLAYED } from '../conformance/accepted-differences.ts'
import { faultOfTest, type TestName } from './route-tests.ts'

// What the service's specification says, row by row, and the tests that are about it.

/** What shows that a row holds. */
type Evidence = TestName | { readonly transcript: number }

const own = (file: string, title: string): TestName => [`test/platform/${file}.test.ts`, title]
const conformance = (file: string, title: string): TestName => [`test/conformance/${file}.test.ts`, title]
const client = (file: string, title: string): TestName => [`packages/platform/src/${file}.test.ts`, title]
/** An exchange with the real server that is replayed. */
const recorded = (transcript: number): Evidence => ({ transcript })

const SHAPES = own('documented-routes', 'each documented route answers with its documented shape')
const MATRIX = own('authorisation', 'each route, by each kind of token: let in or refused as documented')
const CONFIGURATION = own('databases', 'blocks, size, addresses and protection are enforced, and come back')
const USAGE = own('databases', 'rows read and written are counted, also those before a restart')
const OTHERS_TOKENS = own('authorisation', 'tokens of others: admins see and revoke all of the organization')
const GROUP_GONE = own('organizations', 'a deleted one takes its databases and tokens along')
const TRANSFER = own(
  'organizations',
  'a transfer moves the databases with their rows; tokens of all kinds end',
)
const GROUP_ONLY = own('organizations', 'the token of a group sees its group alone')
const SCHEMA = own('databases', 'a schema database and its child: what changes the one changes the other')
const DOMAIN = own('organizations', 'with a domain, every database has a host of its own')
const ROTATION = own(
  'tokens',
  'ends tokens, open streams with their transactions, and change streams at once',
)
const SESSION = own('command-line', 'a session, from login to destroy')
const READ_ONLY = own('tokens', 'a read-only one reads, one that has expired does nothing')
const TAKEN_LOCK = conformance('streams', 'is taken away from a transaction after 5 s when another one waits')

const ROWS: Readonly<Record<string, readonly (readonly [row: string, ...tests: Evidence[]])[]>> = {
  '1 What the service does': [
    [
      'databases belong to organizations, or to accounts that look the same',
      own('organizations', 'paths without an organization mean the own one'),
    ],
    [
      'databases sit in groups and have instances in regions',
      own('organizations', 'locations, name and protection can be changed'),
      SHAPES,
    ],
    ['the platform API manages all of it', own('coverage', 'each route answers as docs/platform.md says')],
    [
      'a database is reached at its own host',
      DOMAIN,
      own('tls-proxy', 'behind a proxy with TLS: the platform API, and each database by its own host'),
    ],
    [
      'SQL, version, health, dump, jobs and changes are asked for there',
      recorded(1),
      recorded(109),
      recorded(110),
      recorded(111),
      recorded(117),
      recorded(120),
    ],
    ['a schema is shared by children, with jobs that tell of progress', SCHEMA, recorded(117)],
  ],
  '2 Resources and their fields': [
    ['organization usage', SHAPES, USAGE],
    ['usage of a database: instances, total, the current cycle', SHAPES, USAGE],
    [
      'organization, and what of it can be changed',
      SHAPES,
      own('bad-input', 'a request with a mistake is refused with a reason, and changes nothing'),
    ],
    ['subscription', SHAPES, SESSION],
    ['configuration: size_limit', CONFIGURATION],
    [
      'configuration: allow_attach',
      own('tokens', 'a database is attached with a token that names it, when it allows that'),
    ],
    ['configuration: block_reads and block_writes', CONFIGURATION],
    ['configuration: delete_protection', CONFIGURATION],
    ['instance', SHAPES, SESSION],
    ['API token: an id of its own, a name that is unique per user', OTHERS_TOKENS],
    ['API token: unrestricted, of an organization, of a group by its id with scopes', MATRIX, GROUP_GONE],
    ['migration job', recorded(117), recorded(119)],
    ['SQL value: null, integer, float, text, blob', recorded(9), recorded(11), recorded(15), recorded(17)],
  ],
  '3 States and transitions': [
    ['API token: revoked, and its id is answered', OTHERS_TOKENS],
    ['token of a group: ends with the group', GROUP_GONE],
    ['token of a group: ends with a transfer', TRANSFER],
    ['a new group of the same name has none of the tokens', GROUP_GONE],
    ['connection: `close` ends it, and no baton comes back', recorded(1), recorded(76)],
    ['connection: ten seconds without a request end it', recorded(78)],
    ['connection: a request bumps the time', recorded(72), recorded(78)],
    ['connection: without `close` there is a baton', recorded(4), recorded(72)],
    ['transaction: five seconds to complete', TAKEN_LOCK],
    ['group: archived and unarchived', own('organizations', 'an archived one sleeps until it is unarchived')],
  ],
  '4 Endpoints of the platform API': [
    ['GET usage of the organization', SHAPES, USAGE],
    ['PATCH organization', SHAPES],
    ['GET subscription', SHAPES],
    ['PATCH configuration', SHAPES, CONFIGURATION],
    ['GET instances', SHAPES],
    ['DELETE API token by name', SHAPES, MATRIX],
    ['revoke rule 1: admins and owners revoke any token of the organization', OTHERS_TOKENS],
    ['revoke rule 2: members and viewers revoke what they minted', OTHERS_TOKENS],
    ['revoke rule 3: a foreign one is 404, not 403', OTHERS_TOKENS],
    ['revoke rule 4: unrestricted ones are not found there', OTHERS_TOKENS],
    [
      'the further routes that the scopes imply',
      own('coverage', 'each route answers as docs/platform.md says'),
      MATRIX,
    ],
  ],
  '4 Endpoints of a database': [
    ['POST /v2/pipeline: operations on one connection', recorded(1), recorded(2)],
    ['positional arguments', recorded(24)],
    ['named arguments, with and without the prefix', recorded(28)],
    ['the baton continues a connection', recorded(82)],
    ['one result for each request', recorded(2)],
    ['GET /version', recorded(109)],
    ['GET /health', recorded(110)],
    [
      'GET /dump',
      recorded(111),
      recorded(115),
      conformance('dump-and-listen', 'loads back to the same values, and dumps to the same text'),
    ],
    ['GET /v1/jobs', recorded(116), recorded(117)],
    ['GET /v1/jobs/:id', recorded(119)],
    ['GET /beta/listen: table and action', recorded(120), recorded(121), recorded(125)],
  ],
  '5 Authentication': [
    [
      '1: every protected request carries the header',
      MATRIX,
      conformance('auth', 'missing, malformed, of another scheme, forged'),
    ],
    ['2: tokens are made and revoked by the API and the command line', SESSION],
    ['3: three levels', MATRIX],
    [
      '4: guidance: scope tokens, never publish them',
      client('call', 'the token is in no error, whatever the answer says'),
    ],
    [
      '5: group-scoped tokens are minted by admins and owners',
      own('organizations', 'a role is given, changed and taken, and with it what tokens may do'),
    ],
    [
      '6: platform tokens and database tokens have nothing in common',
      own('authorisation', 'the words of refusals that are known'),
      READ_ONLY,
    ],
    ['7: scopes', MATRIX, GROUP_ONLY],
    ['7: db:rotate-creds invalidates every token of the database', ROTATION],
    ['7: group:rotate-creds invalidates every token for any database of the group', ROTATION],
    ['8: presets are expanded by the service', SESSION, MATRIX],
    ['9: making, deleting and moving groups needs more than a group token', MATRIX],
    ['10: who sees and revokes which tokens', OTHERS_TOKENS],
    ['11: the life of tokens', GROUP_GONE, TRANSFER],
  ],
  '6 Events': [
    [
      '/beta/listen tells of committed changes, by table and action',
      recorded(120),
      recorded(121),
      recorded(123),
    ],
    [
      'nothing is told of what was rolled back',
      conformance(
        'dump-and-listen',
        'sees each of 2,000 committed changes once, and none of those rolled back',
      ),
    ],
  ],
  '7 Errors': [['a token id of another organization is 404', OTHERS_TOKENS]],
  '8 Limits': [
    ['5 s for a transaction', TAKEN_LOCK],
    ['10 s for an idle connection, bumped by each request', recorded(78)],
    ['allowances of the plan are reported', SHAPES],
    ['size_limit in bytes or with a unit', CONFIGURATION],
  ],
  '9 Versioning': [
    ['the prefixes of the routes', own('coverage', 'each route answers as docs/platform.md says')],
    ['the version of the server is at GET /version', recorded(109)],
    ['unrestricted tokens work on', MATRIX],
  ],
}

/** What is known to go wrong between tenants of one libsql-server, and the test that it does not here. */
const HAZARDS: readonly (readonly [hazard: string, ...tests: Evidence[]])[] = [
  [
    'a process that goes away',
    own('crash', 'when libsql-server itself is killed'),
    own('group-processes', 'whose crash another group does not feel'),
  ],
  [
    'a copy onto an id that was used before deletes it',
    ['packages/local-server/src/control-plane/databases.test.ts', 'and the next attempt has another id'],
    own('databases', 'after a deletion the name is free'),
  ],
  [
    'false 404s beyond the number of open databases',
    ['test/cluster/self-hosting.test.ts', 'more databases than are open at a time: none is denied'],
  ],
  [
    'a name becomes a path of the admin API',
    own('bad-input', 'a request with a mistake is refused with a reason, and changes nothing'),
    own('bad-input', '%2e%2e'),
  ],
  [
    'a replica does not read its own writes',
    ['test/cluster/replicas.test.ts', 'through the same replica, in every way to write and to read'],
  ],
  [
    'a baton is good for whoever has it',
    ['test/attack/batons.test.ts', 'a baton is good for its own database'],
    own('organizations', 'never reach each other: names, hosts, headers, paths, tokens, batons'),
  ],
  ['`/dev/…` leads to other databases', ['test/attack/tokens.test.ts', '/other/dev/app/v3/pipeline']],
  ['half of a change after a crash', own('crash', 'SIGKILL at random moments')],
  [
    'streams of one tenant use up those of all',
    own('group-processes', 'whose streams another group cannot use up'),
  ],
]

const transcripts = readdirSync(new URL('../fixtures/transcripts', import.meta.url))

function faultOf(evidence: Evidence): string | null {
  if (!('transcript' in evidence)) return faultOfTest(evidence)
  const { transcript } = evidence
  const isThere = transcripts.some((name) => name.startsWith(`${String(transcript).padStart(3, '0')}-`))
  if (!isThere) return `there is no recording ${transcript}`
  return transcript in NOT_REPLAYED ? `recording ${transcript} is not replayed` : null
}

test('each row of the specification has a test, and it is there', () => {
  const rows = Object.entries(ROWS).flatMap(([section, list]) =>
    list.map(([row, ...tests]) => ({ name: `${section}: ${row}`, tests })),
  )
  expect(rows.filter(({ tests }) => tests.length === 0)).toEqual([])
  expect(
    rows.flatMap(({ name, tests }) =>
      tests.flatMap((each) => faultOf(each) ?? []).map((fault) => `${name}: ${fault}`),
    ),
  ).toEqual([])
  // the sections 1 to 9, of which the fourth has two halves
  expect(
    Object.keys(ROWS)
      .map((section) => section[0])
      .join(''),
  ).toBe('1234456789')
  expect(rows).toHaveLength(74)
})

test('each hazard of a shared libsql-server has a test', () => {
  expect(
    HAZARDS.flatMap(([hazard, ...tests]) =>
      tests.flatMap((each) => faultOf(each) ?? []).map((fault) => `${hazard}: ${fault}`),
    ),
  ).toEqual([])
})

test('a row whose test is not there is told', () => {
  expect(faultOf(recorded(999_999))).toBe('there is no recording 999999')
  expect(faultOf(own('nowhere', 'nothing'))).toBe('test/platform/nowhere.test.ts is not there')
})
