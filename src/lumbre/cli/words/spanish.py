"""What the cli says in Spanish, by message id. Pure; `words` reads it."""

from collections.abc import Mapping
from types import MappingProxyType

TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "main.help": "Una pasarela de inferencia local: primero responden tus propias máquinas.",
        "main.bad_lang": "--lang admite en o es, no {found!r}",
        "main.completion": "El autocompletado está en {path}; funciona en terminales nuevas.",
        "opt.lang": "Idioma de los textos; si no, lo dicen LUMBRE_LANG, LC_ALL, LC_MESSAGES o LANG.",
        "opt.version": "Muestra la versión y termina.",
        "opt.install_completion": "Instala el autocompletado del shell actual, o del que se nombre.",
        "opt.show_completion": "Muestra el autocompletado del shell actual, o del que se nombre.",
        "opt.json": "Responde con JSON, para programas.",
        "opt.config": "Archivo de ajustes; si no, LUMBRE_CONFIG, ./lumbre.toml o el de ~/.config/lumbre.",
        "opt.url": "Dirección de la pasarela; si no, LUMBRE_URL, o la que esté en marcha aquí.",
        "opt.key": "Clave de la pasarela; si no, LUMBRE_KEY.",
        "opt.yes": "No pregunta.",
        "serve.listening": "Lumbre escucha en {url} (proceso {pid})",
        "serve.ready": "Listo. Modelos: {models}",
        "serve.waiting": "{node} aún no está en marcha: {reason}",
        "serve.draining": "Parando: se terminan {answers} respuesta(s). Otra vez para parar en el acto.",
        "serve.cut_off": "Se cortan {answers} respuesta(s).",
        "serve.stopped": "Parado.",
        "serve.key": (
            "Aquí se pide una clave. Es esta; se muestra una sola vez y solo se guarda su hash:\n\n    {key}\n"
        ),
        "serve.engine_found": "{name} está en marcha en esta máquina, en {url} (modelos: {models}).",
        "serve.engine_hint": "Para usarlo en lugar del motor incorporado: lumbre up --use {kind}",
        "serve.engine_question": "¿Usar {name} en lugar del motor incorporado? [s/N] ",
        "serve.paste": (
            "Pruébalo:\n"
            "\n"
            '  curl {url}/v1/chat/completions -H "Content-Type: application/json"{auth} \\\n'
            '    -d \'{{"model": "auto", "messages": [{{"role": "user", "content": "¡Hola!"}}]}}\'\n'
            "\n"
            "  from openai import OpenAI\n"
            '  client = OpenAI(base_url="{url}/v1", api_key="{key}")\n'
            '  reply = client.chat.completions.create(model="auto", '
            'messages=[{{"role": "user", "content": "¡Hola!"}}])\n'
            "  print(reply.choices[0].message.content)\n"
            "\n"
            "  lumbre chat\n"
            "\n"
            "Sirviendo en {url}. Ctrl-C para parar."
        ),
        "up.help": "Arranca la pasarela y sirve hasta Ctrl-C.",
        "up.host": "Dirección en la que escucha; fuera de esta máquina se exige una clave.",
        "up.port": "Puerto en el que escucha; 0 toma uno libre.",
        "up.state_dir": "Carpeta del estado.",
        "up.model": "Modelo del nivel A: un nombre conocido, hf:owner/repo/file.gguf, o una ruta.",
        "up.backend": "Motor del nivel A: embedded, openai o command.",
        "up.ask": "Hace una primera pregunta cuando está lista, y escribe la respuesta.",
        "up.new_key": "Crea una clave nueva y la muestra una vez; la anterior deja de valer.",
        "up.use": "Usa un motor que ya está en marcha (ollama, llama-server, lm-studio, vllm), o embedded.",
        "up.verbose": "Cuenta más mientras funciona.",
        "chat.help": "Hace una pregunta, o conversa.",
        "chat.message": "La pregunta; sin ella se lee la entrada estándar, o empieza una conversación.",
        "chat.model": "Modelo al que se pregunta.",
        "chat.system": "Instrucción de sistema de la conversación.",
        "chat.max_tokens": "Respuesta más larga, en tokens.",
        "chat.temperature": "Con cuánta libertad elige el modelo sus palabras; 0 para las más probables.",
        "chat.empty": "la pregunta está vacía",
        "chat.json_needs_message": "--json pide una pregunta, como argumento o por la entrada estándar",
        "chat.welcome": (
            "Conversación a través de {url}. /new olvida, /exit o Ctrl-D sale, Ctrl-C detiene una respuesta."
        ),
        "chat.how_to_leave": "(Ctrl-D o /exit sale; otro Ctrl-C también)",
        "chat.commands": "/new olvida lo hablado · /exit sale · Ctrl-C detiene una respuesta",
        "chat.forgotten": "(olvidado)",
        "chat.stopped": "(detenida)",
        "chat.length": "(cortada: la respuesta llegó a su longitud máxima)",
        "client.cut": "la respuesta se cortó antes de acabar",
        "client.silent": "la pasarela de {url} no envió nada en {seconds} s",
        "client.no_http": "lo que responde en {url} no es una pasarela ({reason}); revisa --url",
        "client.unreachable": (
            "ninguna pasarela responde en {url}; arranca una con `lumbre up`, o di dónde está con --url"
        ),
        "client.bad_url": "{source}: {url!r} no es una dirección; es como http://127.0.0.1:8484",
        "client.status": "la pasarela respondió con el estado {status}",
        "client.key": "La pasarela pide una clave: --key, o LUMBRE_KEY.",
        "status.help": "Muestra qué puede servir una pasarela en marcha.",
        "status.no_lumbre": "lo que responde en {url} no es Lumbre; revisa --url",
        "status.ready": "{url} está lista",
        "status.not_ready": "{url} está en marcha, y ahora no puede servir",
        "status.tier": "nivel",
        "status.state": "estado",
        "status.reasons": "motivos",
        "status.upstream": "motor",
        "status.in_flight": "en curso",
        "status.waiting": "en espera",
        "status.slots": "plazas",
        "status.models": "modelos: {names}",
        "status.models_need_key": "modelos: ocultos sin clave (--key o LUMBRE_KEY)",
        "status.warning": "aviso: {warning}",
        "state.ready": "listo",
        "state.starting": "arrancando",
        "state.degraded": "mermado",
        "state.down": "caído",
        "state.stopped": "detenido",
        "state.off": "apagado",
        "doctor.help": "Revisa esta máquina y dice qué hacer.",
        "doctor.ok": "bien",
        "doctor.warn": "aviso",
        "doctor.bad": "MAL",
        "doctor.python": "Python {version}",
        "doctor.python_unproven": "Lumbre se prueba con 3.11 a 3.13; usa una de ellas si algo falla",
        "doctor.platform": "{name}",
        "doctor.unproven": "Lumbre se prueba en Linux x86-64; aquí debería funcionar, y no está probado",
        "doctor.cpu": "procesador: {physical} núcleos, {usable} utilizables aquí; {sets}",
        "doctor.cpu_slow": "sin AVX2 el motor incluido es lento; quizá sirva mejor un motor en otra máquina",
        "doctor.settings": "ajustes: {file}",
        "doctor.settings_none": "ajustes: no hay archivo, valen los de fábrica",
        "doctor.settings_mend": "arréglalo y repite `lumbre doctor`: las demás pruebas necesitan los ajustes",
        "doctor.no_gpu": "sin GPU: responde el procesador",
        "doctor.gpu": "GPU {name}: {state}",
        "doctor.gpu_untold": "no se puede leer su uso",
        "doctor.gpu_state": "{used} de {total} en uso, ocupada al {busy} %",
        "doctor.gpu_idle": (
            'el motor incluido no la usa: pon backend = "command" con tu propio llama-server para esta GPU, '
            "o usa un motor que ya funcione en ella"
        ),
        "doctor.command": "motor: {program} está aquí",
        "doctor.command_missing": "motor: {program} no está en el PATH de esta máquina",
        "doctor.command_mend": "instálalo, o escribe su ruta completa al principio de [tier_a] command",
        "doctor.upstream": "motor {id}",
        "doctor.model": "modelo {name}: {size}, entero, {path}",
        "doctor.model_absent": "modelo {name}: aún no está aquí, {size}",
        "doctor.model_pull": "`lumbre up` lo trae; o ahora: `lumbre models pull {name}`",
        "doctor.model_mend": "elige otro con [tier_a] model; `lumbre models list` muestra los conocidos",
        "doctor.memory": "memoria: {available} disponibles de {total}; el modelo ocupa unos {needed}",
        "doctor.memory_small": "el modelo no cabe: elige uno menor con [tier_a] model",
        "doctor.memory_tight": "cierra otros programas, o elige un modelo menor",
        "doctor.disk_cache": "carpeta de modelos {folder}: {free} libres",
        "doctor.disk_state": "carpeta del estado {folder}: {free} libres",
        "doctor.disk_locked": "no se puede escribir: date permiso en {folder}, o elige otra carpeta",
        "doctor.disk_full": "hacen falta {needed}: libera espacio, o elige otra carpeta",
        "doctor.port_nobody": "el puerto {port} de {host} está libre",
        "doctor.port_lumbre": "puerto {port} de {host}: hay un Lumbre en marcha; `lumbre status` le pregunta",
        "doctor.port_other": "el puerto {port} de {host} lo ocupa otro programa",
        "doctor.port_mend": "elige otro: `lumbre up --port 8585`, o [gateway] port",
        "doctor.no_engines": "no hay otro motor en marcha aquí",
        "doctor.engine": "{name} está en marcha en {url}: {models}",
        "doctor.engine_use": "para que responda: `lumbre up --use {kind}`",
        "models.help": "Muestra, trae y quita archivos de modelos.",
        "models.list.help": "Lista los modelos conocidos y los que están aquí.",
        "models.pull.help": "Trae un modelo.",
        "models.rm.help": "Quita un modelo traído.",
        "models.name": "Un nombre conocido, hf:owner/repo/file.gguf[@revision], o una ruta.",
        "models.column_name": "modelo",
        "models.column_size": "tamaño",
        "models.column_license": "licencia",
        "models.column_here": "aquí",
        "models.absent": "no",
        "models.pulled": "{name} está en {path}",
        "models.removed": "{name} se ha quitado, {size} libres",
        "models.sure": "¿Quitar {name}? [s/N]",
        "models.kept": "{name} se queda; --yes lo quita sin preguntar",
        "config.help": "Comprueba y muestra los ajustes.",
        "config.check.help": "Comprueba los ajustes; nombra la línea equivocada.",
        "config.show.help": "Muestra los ajustes que valen, y de dónde viene cada uno.",
        "config.file": "Archivo que se comprueba; si no, el que tomaría `lumbre up`.",
        "config.ok": "bien: {file}",
        "config.ok_no_file": "bien: no hay archivo de ajustes; valen los de fábrica",
    }
)
