export { AccessPolicy, hostName, isLoopback } from './auth/access-policy.ts'
export { type Claims, decodeClaims, type KeyPair, mintToken, newKeyPair, readToken } from './auth/jwt.ts'
export { KeySets } from './auth/key-sets.ts'
export { claimedDatabase, claimedToken, type ReachableDatabases, TokenCheck } from './auth/token-check.ts'
