/** Limits the recursion of a JSON function to the maximum depth of JSON. */
const limitDepth = (result, name, parameters, names, tooDeep) => [
  `static ${result} ${name}(\n`,
  `static int ${name}Depth = 0;\nstatic ${result} ${name}Once(${parameters});\n` +
    `static ${result} ${name}(${parameters}){\n  ${result} rc;\n` +
    `  if( ${name}Depth>=JSON_MAX_DEPTH ){ ${tooDeep} }\n` +
    `  ${name}Depth++;\n  rc = ${name}Once(${names});\n  ${name}Depth--;\n  return rc;\n}\n` +
    `static ${result} ${name}Once(\n`,
]

/**
 * Changes to the sources. With them, no argument makes a function access memory out of bounds, and row changes undone by a
 * savepoint or a failed statement are not reported.
 */
const CHANGES = {
  'sqlite3.c': [
    [
      'SQLITE_PRIVATE int sqlite3BtreeSavepoint(Btree *p, int op, int iSavepoint){\n  int rc = SQLITE_OK;\n' +
        '  if( p && p->inTrans==TRANS_WRITE ){\n',
      'void baton_savepoint(sqlite3*, int, int);\n' +
        'SQLITE_PRIVATE int sqlite3BtreeSavepoint(Btree *p, int op, int iSavepoint){\n  int rc = SQLITE_OK;\n' +
        '  if( p && p->inTrans==TRANS_WRITE ){\n    baton_savepoint(p->db, op, iSavepoint);\n',
    ],
    // the test of the race that the next change fixes runs another connection here
    [
      '      if( isChanged && pWal->pDbFd->pMethods->iVersion>=3 ){\n',
      '      { void baton_checkpointing(void); baton_checkpointing(); }\n      if( isChanged && pWal->pDbFd->pMethods->iVersion>=3 ){\n',
    ],
    // as in SQLite 3.51.3: the log may have been begun anew since its header was read, so that there is nothing to copy
    [
      '      u32 nBackfill = pInfo->nBackfill;\n      pInfo->nBackfillAttempted = mxSafeFrame;',
      '      u32 nBackfill = pInfo->nBackfill;\n' +
        '      if( memcmp((const void*)walIndexHdr(pWal)->aSalt, pWal->hdr.aSalt, sizeof(pWal->hdr.aSalt)) ){\n' +
        '        walUnlockExclusive(pWal, WAL_READ_LOCK(0), 1);\n        goto walcheckpoint_out;\n      }\n' +
        '      pInfo->nBackfillAttempted = mxSafeFrame;',
    ],
    // as in SQLite 3.50.2: the number of a term in an aggregate query has 16 bits; without an end after the first error, each further
    // term would be compared with all others
    [
      '    assert( pParse->db->mallocFailed );\n    return;\n  }\n  pCol = &pAggInfo->aCol[k];\n',
      '    assert( pParse->db->mallocFailed );\n    return;\n  }\n' +
        '  if( k>pParse->db->aLimit[SQLITE_LIMIT_COLUMN] ){\n' +
        '    k = pParse->db->aLimit[SQLITE_LIMIT_COLUMN];\n' +
        '    sqlite3ErrorMsg(pParse, "more than %d aggregate terms", k);\n  }\n' +
        '  pCol = &pAggInfo->aCol[k];\n',
    ],
    [
      '        for(i=0; i<pAggInfo->nFunc; i++, pItem++){\n          if( NEVER(pItem->pFExpr==pExpr) ) break;\n',
      '        for(i=0; i<pAggInfo->nFunc && pParse->nErr==0; i++, pItem++){\n' +
        '          if( NEVER(pItem->pFExpr==pExpr) ) break;\n',
    ],
    [
      '        if( i>=pAggInfo->nFunc ){\n          /* pExpr is original.',
      '        if( i>pParse->db->aLimit[SQLITE_LIMIT_COLUMN] ){\n' +
        '          i = pParse->db->aLimit[SQLITE_LIMIT_COLUMN];\n' +
        '          sqlite3ErrorMsg(pParse, "more than %d aggregate terms", i);\n' +
        '        }else if( i>=pAggInfo->nFunc ){\n          /* pExpr is original.',
    ],
    // as in SQLite 3.45.2: a second ON CONFLICT clause for the same index hid a later one for the rowid, so that a row was inserted
    // although its rowid existed, and the indexes of the table no longer matched it
    [
      '  u8 isDoUpdate;            /* True for DO UPDATE.  False for DO NOTHING */\n',
      '  u8 isDoUpdate;            /* True for DO UPDATE.  False for DO NOTHING */\n  u8 isDup;\n',
    ],
    [
      'sqlite3UpsertAnalyzeTarget(Parse*,SrcList*,Upsert*);',
      'sqlite3UpsertAnalyzeTarget(Parse*,SrcList*,Upsert*,Upsert*);',
    ],
    [
      'sqlite3UpsertAnalyzeTarget(pParse, pTabList, pNx)',
      'sqlite3UpsertAnalyzeTarget(pParse, pTabList, pNx, pUpsert)',
    ],
    ['  Upsert *pUpsert    /* The ON CONFLICT clauses */\n', '  Upsert *pUpsert,\n  Upsert *pAll\n'],
    [
      '      pUpsert->pUpsertIdx = pIdx;\n',
      '      pUpsert->pUpsertIdx = pIdx;\n      if( sqlite3UpsertOfIndex(pAll,pIdx)!=pUpsert ) pUpsert->isDup = 1;\n',
    ],
    [
      '  pNext = pUpsert->pNextUpsert;\n  if( pNext==0 ) return 1;\n',
      '  pNext = pUpsert->pNextUpsert;\n' +
        '  while( pNext && pNext->pUpsertTarget && pNext->pUpsertIdx && pNext->isDup ) pNext = pNext->pNextUpsert;\n' +
        '  if( pNext==0 ) return 1;\n',
    ],
    // as in SQLite 3.45.2: a cursor kept the overflow pages of the row that an insertion has replaced
    [
      '    pCur->curFlags &= ~(BTCF_ValidNKey);\n    rc = balance(pCur);\n',
      '    pCur->curFlags &= ~(BTCF_ValidNKey|BTCF_ValidOvfl);\n    rc = balance(pCur);\n',
    ],
    [
      '    idx = ++pCur->ix;\n    pCur->curFlags &= ~BTCF_ValidNKey;\n',
      '    idx = ++pCur->ix;\n    pCur->curFlags &= ~(BTCF_ValidNKey|BTCF_ValidOvfl);\n',
    ],
    // as in SQLite 3.49.2: the last instruction may not be the one that reads the column
    [
      '      sqlite3VdbeTypeofColumn(v, r1);\n      sqlite3VdbeAddOp2(v, op, r1, dest);\n      VdbeCoverageIf(v, op==TK_ISNULL);',
      '      if( regFree1 ) sqlite3VdbeTypeofColumn(v, r1);\n      sqlite3VdbeAddOp2(v, op, r1, dest);\n      VdbeCoverageIf(v, op==TK_ISNULL);',
    ],
    [
      '      sqlite3VdbeTypeofColumn(v, r1);\n      sqlite3VdbeAddOp2(v, op, r1, dest);\n      testcase( op==TK_ISNULL );',
      '      if( regFree1 ) sqlite3VdbeTypeofColumn(v, r1);\n      sqlite3VdbeAddOp2(v, op, r1, dest);\n      testcase( op==TK_ISNULL );',
    ],
    // as in SQLite 3.50.3: a damaged index of FTS5 may have any number of tombstones
    [
      '    int nByte = nTomb * sizeof(Fts5Data*) + sizeof(Fts5TombstoneArray);\n',
      '    i64 nByte = nTomb * (i64)sizeof(Fts5Data*) + (i64)sizeof(Fts5TombstoneArray);\n',
    ],
    // libSQL ignores the limit for blob literals, and stores NULL
    [
      '    mxSqlLen -= n;\n    if( mxSqlLen<0 ){\n',
      '    mxSqlLen -= n;\n    if( mxSqlLen<0 || (tokenType==TK_BLOB && (n-3)/2>db->aLimit[SQLITE_LIMIT_LENGTH]) ){\n',
    ],
    limitDepth(
      'u32',
      'jsonTranslateBlobToText',
      'const JsonParse *p, u32 i, JsonString *out',
      'p, i, out',
      'out->eErr |= JSTRING_MALFORMED; return p->nBlob+1;',
    ),
    limitDepth(
      'u32',
      'jsonLookupStep',
      'JsonParse *p, u32 root, const char *path, u32 label',
      'p, root, path, label',
      'return JSON_LOOKUP_PATHERROR;',
    ),
    limitDepth(
      'int',
      'jsonMergePatch',
      'JsonParse *target, u32 at, const JsonParse *patch, u32 patchAt',
      'target, at, patch, patchAt',
      'return JSON_MERGE_BADPATCH;',
    ),
    // the error would also print memory after the end of the text
    [
      'if( iBuf > MAX_FLOAT_CHAR_SZ ){\n        *pzErrMsg = sqlite3_mprintf("vector: float string',
      'if( iBuf >= MAX_FLOAT_CHAR_SZ ){\n        *pzErrMsg = sqlite3_mprintf("vector: float string',
    ],
    // too little memory would be allocated for a negative size
    [
      '"vector: unexpected binary type: %d", *pType);\n    return SQLITE_ERROR;\n  }\n  return SQLITE_OK;',
      '"vector: unexpected binary type: %d", *pType);\n    return SQLITE_ERROR;\n  }\n' +
        '  if( *pDims<0 || *pDataSize>nBlobSize ){\n' +
        '    *pzErrMsg = sqlite3_mprintf("vector: broken vector blob");\n    return SQLITE_ERROR;\n  }\n' +
        '  return SQLITE_OK;',
    ],
    // elements after a NUL would be counted but not read, so uninitialized memory would be returned
    [
      "for(iText = 0; iText < textBytes; iText++){\n    if( text[iText] == ',' ){",
      "for(iText = 0; iText < textBytes && text[iText]; iText++){\n    if( text[iText] == ',' ){",
    ],
    [
      '  sqlite3_result_value(context, argv[0]);\n}\n\n/*\n** Register vector functions.',
      '  if( argc>0 ) sqlite3_result_value(context, argv[0]);\n}\n\n/*\n** Register vector functions.',
    ],
  ],
  // limits the depth of its recursion, and the size of a compiled pattern
  'regexp.c': [
    ['struct ReCompiled {\n', 'struct ReCompiled {\n  int groups;\n'],
    [
      '  iStart = p->nState;\n  zErr = re_subcompile_string(p);\n',
      '  if( ++p->groups>200 ) return "too many brackets";\n  iStart = p->nState;\n  zErr = re_subcompile_string(p);\n',
    ],
    [
      '  char *aOp;\n  int *aArg;\n  aOp = sqlite3_realloc64(',
      '  char *aOp;\n  int *aArg;\n  if( N>4000 ){ p->zErr = "the pattern is too large"; return 1; }\n  aOp = sqlite3_realloc64(',
    ],
    [
      "{ m = m*10 + c - '0'; p->sIn.i++; }",
      '{ m = m*10 + c - \'0\'; p->sIn.i++; if( m>2000 ) return "the pattern is too large"; }',
    ],
    [
      "{ n = n*10 + c-'0'; p->sIn.i++; }",
      '{ n = n*10 + c-\'0\'; p->sIn.i++; if( n>2000 ) return "the pattern is too large"; }',
    ],
  ],
}

/** Applies the changes to a source. @throws Error if it is not the source they were written for */
export function changeSource(name, source) {
  return CHANGES[name].reduce((text, [from, to]) => {
    if (text.split(from).length !== 2) throw new Error(`${name} does not contain exactly one ${from}`)
    return text.replace(from, () => to)
  }, source)
}
