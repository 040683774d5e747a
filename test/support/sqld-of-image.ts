import { inject } from 'vitest'

// the servers that the files of this project start are the image's
process.env['BATON_SQLD'] = inject('libsqlContainer').sqldPath
