import './keyed-template.ts'
