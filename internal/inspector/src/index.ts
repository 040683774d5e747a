export { InspectorFeed } from './inspector-feed.ts'
export { INSPECTOR_PATH, InspectorPage } from './inspector-page.ts'
