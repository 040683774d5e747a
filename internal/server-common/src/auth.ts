export { AccessPolicy, getHostName, isLoopback } from './auth/access-policy.ts'
export {
  type Claims,
  decodeClaims,
  decodeHeader,
  type KeyPair,
  newKeyPair,
  signToken,
  verifyToken,
} from './auth/jwt.ts'
export { KeySets } from './auth/key-sets.ts'
export {
  findBearerToken,
  getClaimedDatabase,
  type ReachableDatabases,
  TokenCheck,
} from './auth/token-check.ts'
