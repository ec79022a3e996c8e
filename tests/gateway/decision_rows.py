"""What the gateway decides, row by row, written by hand from the texts. Only data; `test_decision_rows` reads it.

A row is `request | house | outcome`, under the seed's sentence or the numbered rule that it rests on. The house has
one node a place, each ready: `a` of tier A, `b1` (batch) and `e1` (express) of tier B, `c` of tier C, whose key is
there. They serve `ma`, `mb`, `mb` and `mc` by name, and all of them `mu`. Words change that:

    request   low medium high · bg · strict · tier=B label=batch model=mb aff=B ext=never closed=fall key=k · lacks=a,e1
              (nodes that cannot) · table=A:ma,C:auto (an alias with a model for each tier)
    house     e1=down · e2=ready (a further node) · nob noc nokey · only=batch (express has no node) · both (one node,
              n, has both labels) · policy=local-only · shut=B,e1 (switches that are closed) · mode=fall · hold ·
              a-strict · direct=mc · budget=B,C · mx=a,b1 (nodes that serve `mx` too)
    outcome   `A > B/express` tiers in order · `start B/batch > A` · `wait` · `503 switch_closed B`
"""

ROWS = """
# Es el destino predeterminado para todas las solicitudes.
auto                    |                                   | A > B/express > C
low                     |                                   | A > B/express > C
medium                  |                                   | A > B/express > C
bg                      |                                   | A > B/batch > C
auto                    | nob nokey                         | A

# Las solicitudes que requieren cumplimiento estricto de un esquema JSON se enrutan al Nivel B.
strict                  |                                   | B/express
strict low              |                                   | B/express
strict high             |                                   | B/express
strict bg               |                                   | B/batch
strict label=batch      |                                   | B/batch
strict tier=B           |                                   | B/express
strict tier=B bg        |                                   | B/batch
strict model=mb         |                                   | B/express
strict model=mu         |                                   | B/express

# la pasarela lo inicia automáticamente
high                    | e1=stopped                        | start B/express > A > C
high                    | e1=starting                       | start B/express > A > C
high bg                 | b1=stopped                        | start B/batch > A > C
tier=B                  | e1=stopped                        | start B/express > A > C
label=batch             | b1=stopped                        | start B/batch > A > C
strict                  | e1=stopped                        | start B/express
model=mb                | e1=stopped                        | start B/express
auto                    | policy=drain-batch b1=stopped     | start B/batch > A > C

# Cuando el nodo está en funcionamiento, las solicitudes se despachan de inmediato.
high                    | e1=ready                          | B/express > A > C
high                    | e1=stopped e2=ready               | B/express > A > C
high                    | e1=stopped b1=ready               | start B/express > A > C

# las solicitudes caen al Nivel A o se ponen en cola hasta que el nodo se recupera
high                    | e1=tripped                        | A > C
high                    | e1=tripped hold                   | A > C
high                    | e1=tripped e2=ready               | B/express > A > C
tier=B                  | e1=tripped hold                   | A > C
high bg                 | b1=tripped                        | A > C
high bg                 | b1=tripped hold                   | wait

# 5.10
strict                  | e1=tripped hold                   | wait
aff=B                   | e1=tripped hold                   | wait
label=batch bg          | b1=tripped hold                   | wait

# Una etiqueta batch gestiona trabajo en segundo plano
tier=B bg               |                                   | B/batch > A > C
model=tier-b bg         |                                   | B/batch > A > C
model=mb bg             |                                   | B/batch
aff=B bg                |                                   | B/batch
bg                      | a=down                            | B/batch > C

# Una etiqueta express gestiona trabajo sensible al tiempo que no puede esperar un arranque en frío.
tier=B                  |                                   | B/express > A > C
model=tier-b            |                                   | B/express > A > C
model=mb                |                                   | B/express
aff=B                   |                                   | B/express

# Sirve como respaldo final cuando tanto el Nivel A como el Nivel B no están disponibles
auto                    | a=down e1=down                    | C
auto                    | a=down nob                        | C
auto                    | a=down e1=tripped                 | C
auto                    | a=cooling e1=cooling              | C
high                    | a=down e1=down                    | C
high                    | nob                               | A > C
label=batch             | a=down b1=down                    | C
auto                    | a=down e1=down c=down             | 503 no_tier

# como ruta directa para tareas que la organización ha designado explícitamente como externas
tier=C                  |                                   | 403 tier_c_not_designated
tier=C                  | direct=*                          | C > A
tier=C                  | direct=mc                         | C > A
tier=C                  | direct=ma                         | 403 tier_c_not_designated
tier=C                  | direct=tier-c                     | 403 tier_c_not_designated
model=tier-c            | direct=tier-c                     | C > A
model=tier-c            | direct=mc                         | C > A
model=tier-c            |                                   | 403 tier_c_not_designated
model=mc                | direct=mc                         | C
model=mc                |                                   | 403 tier_c_not_designated
tier=C key=k1           | direct=k1                         | C > A
tier=C key=k2           | direct=k1                         | 403 tier_c_not_designated
aff=C                   | direct=mc                         | C
aff=C                   |                                   | 403 tier_c_not_designated
aff=C                   | policy=drain-batch direct=*       | C
aff=C                   | policy=local-only direct=*        | C

# Requiere una clave API explícita para activarse.
auto                    | nokey                             | A > B/express
auto                    | nokey a=down e1=down              | 503 no_tier
tier=C                  | nokey direct=*                    | A
tier=C                  | nokey                             | 403 tier_c_not_designated
aff=C                   | nokey direct=*                    | 503 no_tier

# un interruptor de emergencia cerrado para el nivel solicitado, la solicitud se rechaza o cae al siguiente nivel
auto                    | shut=A                            | B/express > C
high                    | shut=B                            | A > C
high                    | shut=express                      | A > C
high                    | shut=e1                           | A > C
high                    | shut=batch                        | B/express > A > C
high                    | shut=b1                           | B/express > A > C
high                    | shut=e1 e2=ready                  | B/express > A > C
auto                    | policy=drain-batch shut=batch     | A > C
auto                    | policy=drain-express shut=B       | A > C
tier=B                  | shut=B                            | 503 switch_closed B
tier=A                  | shut=A                            | 503 switch_closed A
tier=C                  | shut=C direct=*                   | 503 switch_closed C

# 2. Si hay una etiqueta de nivel explícita, la solicitud se enruta a ese nivel.
tier=A high             |                                   | A > B/express > C
tier=A                  | policy=drain-batch                | A > B/express > C
tier=A                  | policy=drain-express              | A > B/express > C
tier=B low              | policy=local-only                 | B/express > A > C
tier=B bg               | policy=drain-express              | B/batch > A > C
tier=C                  | policy=local-only direct=*        | C > A
model=tier-a high       | policy=drain-batch                | A > B/express > C

# balanced: complejidad baja y media → Nivel A; alta → Nivel B.
low                     | policy=balanced                   | A > B/express > C
medium                  | policy=balanced                   | A > B/express > C
high                    | policy=balanced                   | B/express > A > C

# drain-batch: todo el trabajo no-express va al nodo batch.
low                     | policy=drain-batch                | B/batch > A > C
medium                  | policy=drain-batch                | B/batch > A > C
high                    | policy=drain-batch                | B/batch > A > C
bg                      | policy=drain-batch                | B/batch > A > C
strict                  | policy=drain-batch                | B/batch
aff=B                   | policy=drain-batch                | B/batch

# drain-express: todo el trabajo va al nodo express para vaciar el backlog.
low                     | policy=drain-express              | B/express > A > C
high                    | policy=drain-express              | B/express > A > C
high bg                 | policy=drain-express              | B/express > A > C
strict bg               | policy=drain-express              | B/express
aff=B bg                | policy=drain-express              | B/express

# local-only: todo el trabajo va al Nivel A independientemente de la complejidad.
low                     | policy=local-only                 | A
high                    | policy=local-only                 | A
high bg                 | policy=local-only                 | A
auto                    | policy=local-only a=down          | 503 no_tier

# Si el nivel seleccionado no está disponible, la solicitud cae al siguiente nivel a menos que se requiera afinidad
auto                    | a=down                            | B/express > C
high                    | e1=down                           | A > C
high                    | e1=cooling                        | A > C
tier=A                  | a=down                            | B/express > C
tier=B                  | e1=down                           | A > C
tier=B                  | nob                               | A > C
label=batch             | b1=down                           | A > C
aff=A                   |                                   | A
aff=A high              |                                   | A
aff=A                   | policy=drain-batch                | A
aff=A                   | a=down                            | 503 no_tier
aff=B                   | e1=down                           | 503 no_tier
aff=B tier=B            | e1=cooling                        | 503 no_tier
aff=C                   | c=down direct=*                   | 503 no_tier

# la extracción estructurada requiere el Nivel B y no cae de vuelta al Nivel A
strict                  | e1=down                           | 503 no_tier
strict                  | e1=tripped                        | 503 no_tier
strict tier=B           | e1=cooling                        | 503 no_tier
strict                  | shut=B                            | 503 switch_closed B
strict closed=fall      | shut=B                            | 503 switch_closed B
strict                  | shut=express mode=fall            | 503 switch_closed express
strict                  | budget=B                          | 429 over_budget

# Cada nivel tiene un interruptor de emergencia independiente.
auto                    | shut=C                            | A > B/express
auto                    | shut=B                            | A > C
auto                    | shut=B,C                          | A
auto                    | shut=A,B,C                        | 503 switch_closed A
high                    | shut=A,B,C                        | 503 switch_closed B

# El trabajo en cola se acumula y se vacía cuando se reabre el interruptor.
high bg                 | shut=B hold                       | wait
bg                      | shut=A hold                       | wait
bg                      | policy=drain-batch shut=b1 hold   | wait
label=batch bg          | shut=batch hold                   | wait
strict bg               | shut=batch hold                   | wait
high bg                 | shut=B                            | 503 switch_closed B
bg                      | shut=B hold                       | A > C

# Cerrar el interruptor del nodo express detiene el arranque de la GPU L4; el coste cae a cero.
label=express           | shut=express e1=stopped           | 503 switch_closed express
label=express           | shut=e1 e1=stopped                | 503 switch_closed e1
auto                    | a=down shut=e1 e1=stopped         | C
auto                    | a=down shut=express e1=stopped    | C
auto                    | policy=drain-express shut=express | A > C

# Cerrar el interruptor global detiene todo el gasto de los Niveles B y C mientras permite que el Nivel A continúe
auto                    | shut=global                       | A
high                    | shut=global                       | A
tier=A                  | shut=global                       | A
aff=A                   | shut=global                       | A
tier=B                  | shut=global                       | 503 switch_closed global
tier=B                  | shut=global,B                     | 503 switch_closed global
tier=C                  | shut=global direct=*              | 503 switch_closed global
strict                  | shut=global                       | 503 switch_closed global
auto                    | shut=global a=down                | 503 no_tier
high                    | shut=global a=down                | 503 switch_closed global

# El carril express — que evita la cola respaldada en archivos para trabajo sensible al tiempo — sigue verificando
label=express           | shut=express                      | 503 switch_closed express
label=express           | shut=B                            | 503 switch_closed B
label=express           | shut=global                       | 503 switch_closed global
model=tier-b/express    | shut=express                      | 503 switch_closed express

# Nada evita el interruptor de emergencia.
model=ma                | shut=A                            | 503 switch_closed A
model=mb                | shut=B                            | 503 switch_closed B
model=mc                | shut=C direct=*                   | 503 switch_closed C
aff=A closed=fall       | shut=A                            | 503 switch_closed A
aff=C closed=fall       | shut=C direct=*                   | 503 switch_closed C
strict tier=C closed=fall | shut=C direct=*                   | 503 switch_closed C
auto                    | policy=local-only shut=A          | 503 switch_closed A
closed=fall             | policy=local-only shut=A          | 503 switch_closed A

# 5.2
tier=B closed=fall      | shut=B                            | A > C
tier=B                  | shut=B mode=fall                  | A > C
tier=B closed=auto      | shut=B mode=fall                  | 503 switch_closed B
tier=A closed=fall      | shut=A                            | B/express > C
tier=C closed=fall      | shut=global direct=*              | A
high closed=reject      | shut=B                            | 503 switch_closed B
high                    | shut=B mode=reject                | 503 switch_closed B
high closed=fall        | shut=B mode=reject                | A > C
high closed=auto        | shut=B mode=reject                | A > C
auto                    | shut=B mode=reject                | A > C
high bg closed=fall     | shut=B hold                       | A > C
high bg closed=reject   | shut=B hold                       | 503 switch_closed B
strict bg closed=fall   | shut=batch hold                   | 503 switch_closed batch
aff=C closed=fall       | shut=C nokey direct=*             | 503 switch_closed C
tier=B closed=fall      | shut=B a=down nokey               | 503 switch_closed B

# 5.3
label=express           | both shut=batch                   | B/express > A > C
label=batch             | both shut=batch                   | 503 switch_closed batch
label=express           | both shut=batch,express           | 503 switch_closed express
label=express           | both shut=n                       | 503 switch_closed n
label=express           | only=batch shut=batch             | 503 switch_closed batch
label=express           | only=batch shut=express           | 503 switch_closed express
label=batch             | only=batch shut=express           | B/batch > A > C
high                    | only=batch shut=batch             | A > C
bg                      | only=express shut=express a=down  | C

# 5.4
high                    | only=batch                        | B/express > A > C
high bg                 | only=express                      | B/batch > A > C
label=express           | only=batch b1=stopped             | start B/express > A > C
label=express bg        |                                   | B/express > A > C
label=batch             | policy=drain-express              | B/batch > A > C
label=batch             | policy=local-only                 | B/batch > A > C
model=ma                | policy=drain-batch                | A
model=mb                | policy=local-only                 | B/express
model=mu                | policy=drain-express              | A > B/express > C
model=tier-b/batch      | policy=local-only                 | B/batch > A > C
model=mu aff=B          |                                   | B/express
model=mu tier=B         |                                   | B/express > A > C
tier=B label=batch      |                                   | B/batch > A > C
model=tier-b label=batch |                                   | B/batch > A > C
model=tier-b/batch tier=B |                                   | B/batch > A > C
model=ma tier=B         |                                   | 400 invalid_hint
model=mb tier=A         |                                   | 400 invalid_hint
model=mc tier=A         |                                   | 400 invalid_hint
model=mc label=express  |                                   | 400 invalid_hint
model=tier-a tier=B     |                                   | 400 invalid_hint
model=tier-a label=batch |                                   | 400 invalid_hint
model=tier-b/batch label=express |                                   | 400 invalid_hint
tier=A label=batch      |                                   | 400 invalid_hint
tier=C label=batch      | direct=*                          | 400 invalid_hint
model=mx                | mx=e1                             | B/express
model=mx bg             | mx=b1                             | B/batch
model=mx                | mx=a,e1                           | A > B/express
model=mx                | mx=a,c a=down                     | C
model=mx aff=B          | mx=a,e1                           | B/express
model=mx aff=A          | mx=e1                             | 422 affinity_conflict

# 5.5
strict tier=A           |                                   | 422 affinity_conflict
strict tier=A           | nob                               | 422 affinity_conflict
strict aff=A            |                                   | 422 affinity_conflict
strict model=ma         |                                   | 422 affinity_conflict
strict model=tier-a     |                                   | 422 affinity_conflict
aff=B tier=A            |                                   | 422 affinity_conflict
aff=B model=ma          |                                   | 422 affinity_conflict
aff=A tier=B            |                                   | 422 affinity_conflict
strict                  | nob                               | 503 strict_json_needs_b
strict tier=B           | nob                               | 503 strict_json_needs_b
aff=B                   | nob                               | 503 strict_json_needs_b
strict                  | policy=local-only                 | 503 strict_json_needs_b
aff=B                   | policy=local-only                 | 503 strict_json_needs_b
aff=B                   | policy=local-only a-strict        | 503 strict_json_needs_b
strict label=batch      | policy=local-only                 | B/batch
strict tier=B           | policy=local-only                 | B/express
strict                  | a-strict                          | A > B/express > C
strict high             | a-strict                          | B/express > A > C
strict tier=A           | a-strict                          | A > B/express > C
strict aff=A            | a-strict                          | A
strict                  | a-strict nob                      | A > C
strict                  | a-strict policy=local-only        | A
strict tier=C           |                                   | 403 tier_c_not_designated
strict tier=C           | direct=*                          | C
strict aff=C            | direct=*                          | C
strict model=mc         | direct=mc                         | C
strict tier=C           | direct=* c=down                   | 503 no_tier
strict tier=C           | direct=* nokey                    | 503 no_tier
strict model=mx         | mx=a                              | 422 affinity_conflict
strict model=mx         | mx=a,e1                           | B/express
strict model=mx         | mx=a,c direct=mx                  | C
strict model=mx         | mx=a,c                            | 403 tier_c_not_designated

# 5.6
auto                    | policy=local-only shut=global     | A
label=express           | policy=drain-batch                | B/express > A > C
label=express bg        | policy=drain-batch                | B/express > A > C
auto                    | policy=local-only nob nokey       | A

# 5.7
auto                    | a=down e1=stopped                 | start B/express > C
auto                    | a=starting                        | A > B/express > C
auto                    | e1=stopped                        | A > B/express > C
auto                    | a=down a2=ready                   | A > B/express > C
high                    | budget=B                          | A > C
tier=B                  | budget=B                          | A > C
auto                    | budget=B,C                        | A
auto                    | budget=B,C a=down                 | 429 over_budget
auto                    | budget=C a=down e1=down           | 429 over_budget
tier=B                  | budget=B a=down nokey             | 429 over_budget
tier=C                  | budget=C direct=*                 | A
tier=C                  | c=down a=down direct=*            | 503 no_tier
tier=C                  | c=down direct=*                   | A
tier=C ext=never        | direct=*                          | A
aff=C ext=never         | direct=*                          | 503 no_tier
ext=never               |                                   | A > B/express
ext=never               | a=down e1=down                    | 503 no_tier
ext=allow               |                                   | A > B/express > C
tier=C                  | shut=C                            | 403 tier_c_not_designated
tier=C model=mu         | direct=mu                         | C > A
tier=C model=mu         | direct=mc                         | 403 tier_c_not_designated
tier=C                  | direct=mu                         | 403 tier_c_not_designated
strict tier=C closed=fall | shut=C nokey direct=*             | 503 switch_closed C

# 5.8
lacks=a                 |                                   | B/express > C
lacks=a                 | e1=stopped                        | start B/express > C
lacks=a                 | a2=ready                          | A > B/express > C
high lacks=e1           |                                   | A > C
tier=A lacks=a          |                                   | B/express > C
lacks=a,e1              |                                   | C
lacks=c                 |                                   | A > B/express
aff=A lacks=a           |                                   | 400 context_length_exceeded
strict lacks=e1         |                                   | 400 context_length_exceeded
lacks=a,e1,c            |                                   | 400 context_length_exceeded
lacks=a                 | nob nokey                         | 400 context_length_exceeded
lacks=a                 | nob noc                           | 400 context_length_exceeded
lacks=a                 | policy=local-only                 | 400 context_length_exceeded
lacks=a                 | e1=down nokey                     | 503 no_tier
lacks=a                 | a2=down nob nokey                 | 503 no_tier
lacks=a                 | shut=global                       | 503 no_tier
lacks=a                 | budget=B nokey                    | 429 over_budget
model=mx                |                                   | 404 model_not_found
model=mx                | policy=drain-batch                | 404 model_not_found
model=ma                |                                   | A
model=ma                | a=down                            | 503 no_tier
aff=A lacks=a           | a=down                            | 400 context_length_exceeded
lacks=a,e1              | e1=down nokey                     | 400 context_length_exceeded
table=A:ma,C:mc         |                                   | A > C
table=A:ma,C:mc high    |                                   | A > C
table=A:mu,B:auto       |                                   | A > B/express
table=A:mu,B:auto strict |                                   | B/express
table=B:mb              |                                   | B/express
table=B:mb              | policy=local-only                 | 503 no_tier
table=A:ma              | a=down                            | 503 no_tier
table=C:mc              |                                   | 403 tier_c_not_designated
table=C:mc              | direct=mc                         | C
table=A:ma tier=B       |                                   | 404 model_not_found
table=A:ma aff=C        | direct=*                          | 404 model_not_found
"""
