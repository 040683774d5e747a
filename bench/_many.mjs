import { startLocalServer } from '@batonsql/local-server'
const s = await startLocalServer()
const N=+process.argv[2]
const q = async (name,...sql)=>{ const r=await fetch(s.url+'/'+name+'/v3/pipeline',{method:'POST',body:JSON.stringify({requests:[...sql.map(x=>({type:'execute',stmt:{sql:x}})),{type:'close'}]})}); const t=await r.text(); if(r.status!==200||t.includes('"error"')) throw new Error(r.status+t); return t }
const mem=()=>{ return (process.memoryUsage().rss/1e6).toFixed(0)+' MB' }
console.log('start',mem())
let t=performance.now()
for(let i=0;i<N;i++) await s.createDatabase('d'+i)
console.log('create ms each',((performance.now()-t)/N).toFixed(2),mem()); t=performance.now()
let max=0
for(let i=0;i<N;i+=8) { await Promise.all(Array.from({length:8},(_,k)=>i+k<N?q('d'+(i+k),'create table t(a)','insert into t values('+(i+k)+')'):0)); max=Math.max(max,process.memoryUsage().rss) }
console.log('first write ms each',((performance.now()-t)/N).toFixed(2),mem(),'max',(max/1e6).toFixed(0)); t=performance.now()
for(let i=0;i<N;i+=8) await Promise.all(Array.from({length:8},(_,k)=>i+k<N?q('d'+(i+k),'select a from t').then(x=>{if(!x.includes('"value":"'+(i+k)+'"')) throw new Error(x)}):0))
console.log('read ms each',((performance.now()-t)/N).toFixed(2),mem()); t=performance.now()
await new Promise(r=>setTimeout(r,8000)); globalThis.gc?.()
console.log('idle',mem()); t=performance.now()
for(let i=0;i<N;i++) await s.removeDatabase('d'+i)
console.log('remove ms each',((performance.now()-t)/N).toFixed(2),mem())
await s.close()
