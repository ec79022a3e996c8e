"""What the gateway should decide, read literally from the texts, a sentence at a time. Pure.

It shares nothing with the decision but the words that it is asked in, and knows no steps: only where a request goes,
or how it is refused. A Spanish quote is the seed's; `5.N` is a numbered rule that fills a gap the seed leaves.
"""

from gateway.outcomes import Outcome, Place
from lumbre.gateway.facts import Facts, Node, Question

SAID = "auto", "tier-a", "tier-b", "tier-b/batch", "tier-b/express", "tier-c"
MEANT = (None, None), ("A", None), ("B", None), ("B", "batch"), ("B", "express"), ("C", None)
WORDS: dict[str, tuple[str | None, str | None]] = dict(zip(SAID, MEANT, strict=True))
FALLS = {
    "A": "BC",
    "B": "AC",
    "C": "A",
}  # 5.7: "B → A → C; C → A."; "C only when B cannot serve … and A cannot either."


def read(question: Question, facts: Facts) -> Outcome:
    """Where a request goes. Every upstream of A has to have said what it serves."""
    hints, background = question.hints, question.hints.klass == "background"
    # 5.5: "It never runs on A unless the operator says that A's model can … With `strict_json = true` it is ordinary"
    strict = question.strict_json and not facts.a_does_strict_json
    if isinstance(said := explicit(question, facts, strict), Outcome):
        return said
    asked, label = said
    # "affinity: the request must run on its tier"; 5.5: "Explicit A with strict JSON is 422 `affinity_conflict`"
    if (asked and hints.affinity and asked != hints.affinity) or (strict and "A" in (asked, hints.affinity)):
        return Outcome("reject", (), 422, "affinity_conflict")
    asked = asked or (hints.affinity if hints.affinity != "B" else None)
    # 5.7: "Direct work for C only where the operator designated it (…; default none; others 403)"
    if asked == "C" and not may_ask_for_c(question, facts):
        return Outcome("reject", (), 403, "tier_c_not_designated")
    needs_b, at_home = hints.affinity == "B" or (strict and asked != "C"), not asked and facts.policy == "local-only"
    # 5.5: "Strict JSON is … or affinity B"; "Under `local-only`, unlabelled strict JSON is 503 `strict_json_needs_b`"
    if at_home and needs_b:
        return Outcome("reject", (), 503, "strict_json_needs_b")
    tier, label = (asked, label) if asked else by_policy(question, facts, needs_b)
    # 5.4: "interactive work to `express`, background to `batch`"
    by_class = "batch" if background else "express"
    places: list[Place] = [(tier, (label or by_class) if tier == "B" else None)]
    # 5.6: "`local-only` gives unlabelled work A-affinity"; "la extracción estructurada … no cae de vuelta al Nivel A"
    bound = bool(hints.affinity or strict or at_home)
    # "Si hay un interruptor … cerrado para el nivel solicitado, la solicitud se rechaza o cae al siguiente nivel."
    if switch := stopped_by(places[0], facts):
        mode = hints.closed or facts.on_closed
        # 5.2: "background work stays queued"
        if mode == "auto" and background and facts.holds_work:
            return Outcome("wait")
        # 5.2: "an explicit label or affinity gets 503 … and the switch's name; policy-routed work falls"
        if bound or mode == "reject" or (mode == "auto" and (background or asked)):
            return Outcome("reject", (), 503, "switch_closed", switch)
    # 5.5: "with no B configured, 503 that names both ways out", one of which is `strict_json = true`
    if needs_b and not facts.b and not facts.a_does_strict_json:
        return Outcome("reject", (), 503, "strict_json_needs_b")
    # "Si el nivel … no está disponible, la solicitud cae al siguiente nivel a menos que se requiera afinidad de nivel"
    places += [] if bound else [(each, by_class if each == "B" else None) for each in FALLS[tier]]
    whys = [why_not(place, question, facts) for place in places]
    # 5.10: "Interactive work falls, affinity waits as a job, background stays queued."
    if tier == "B" and "tripped" in whys[0] and facts.holds_work and (bound or background):
        return Outcome("wait")
    if left := tuple(place for place, why in zip(places, whys, strict=True) if not why):
        # "el nodo objetivo está detenido, la pasarela lo inicia automáticamente"
        fit = [node.state for node in nodes_of(left[0], facts) if not why_not_node(node, left[0], question, facts)]
        return Outcome("start" if left[0][0] == "B" and "ready" not in fit else "dispatch", left)
    every = set().union(*whys)
    # 5.8: "is unavailable to it, with that reason": where nothing but the request is at fault, that is the answer
    if "lack" in every and every <= {"lack", "never"}:
        return next(Outcome("reject", (), lack.status, lack.code) for lack in question.lacks.values())
    if "switch" in whys[0]:
        stops = (
            node for node in nodes_of(places[0], facts) if why_not_node(node, places[0], question, facts) == {"switch"}
        )
        return Outcome("reject", (), 503, "switch_closed", switch or closed_over(places[0], facts, next(stops)))
    return Outcome("reject", (), 429, "over_budget") if "budget" in every else Outcome("reject", (), 503, "no_tier")


def explicit(question: Question, facts: Facts, strict: bool) -> tuple[str | None, str | None] | Outcome:
    """5.4: "An explicit tier, label or model wins over every policy": two that disagree cannot both."""
    hints, word = question.hints, WORDS.get(question.model, (None, None))
    table = question.asked.by_tier if question.asked else {}
    serving = [tier for tier in "ABC" if facts.serves(tier, question.model)]
    if not serving and question.model not in WORDS and not table:
        return Outcome("reject", (), 404, "model_not_found")
    tiers, labels = {hints.tier, word[0], "B" if hints.label else None} - {None}, {hints.label, word[1]} - {None}
    if len(tiers) > 1 or len(labels) > 1 or (serving and not tiers <= set(serving)):
        return Outcome("reject", (), 400, "invalid_hint")
    if table and not (tiers or {hints.affinity} - {None}) <= set(table):
        return Outcome("reject", (), 404, "model_not_found")
    able = [tier for tier in serving if tier != "A" or not strict] or serving
    model_of = ["C"] if set(table) == {"C"} else [hints.affinity] if hints.affinity in serving else able
    return next(iter([*tiers, *model_of]), None), next(iter(labels), None)


def by_policy(question: Question, facts: Facts, needs_b: bool) -> Place:
    # The seed of local-only: "todo el trabajo va al Nivel A"; of drain-batch: "todo el trabajo no-express va al nodo
    # batch"; of drain-express: "todo el trabajo va al nodo express para vaciar el backlog"
    if facts.policy != "balanced":
        return ("A", None) if facts.policy == "local-only" else ("B", facts.policy.removeprefix("drain-"))
    # "balanced: complejidad baja y media → Nivel A; alta → Nivel B."; 5.5: "pick B's label as for `high`"
    return ("B" if question.hints.complexity == "high" or needs_b else "A"), None


def may_ask_for_c(question: Question, facts: Facts) -> bool:
    # 5.7: "`[tier_c] direct`, models or keys": the model that C would run, its first unless one is named
    model = (question.asked and question.asked.by_tier.get("C")) or question.model
    own = [model] if model not in WORDS else [node.models[0] for node in facts.c]
    return bool(facts.c_direct & {*own, question.key, "*", *({"tier-c"} & {model})})


def nodes_of(place: Place, facts: Facts) -> list[Node]:
    # 5.4: "A label without nodes uses the other label."
    return [node for node in facts.nodes(place[0]) if place[1] in node.labels] or list(facts.nodes(place[0]))


def closed_over(place: Place, facts: Facts, node: Node | None = None) -> str | None:
    # "Cerrar el interruptor global detiene todo el gasto de los Niveles B y C mientras permite que el Nivel A continúe"
    names = ["A"] if place[0] == "A" else ["global", *filter(None, place)]
    # 5.3: "when a label borrows the other's node, both switches are checked"
    names += [*(node.labels if place[1] not in node.labels else ()), node.id] if place[1] and node else []
    return next((name for name in names if name in facts.closed), None)


def stopped_by(place: Place, facts: Facts) -> str | None:
    nodes = [closed_over(place, facts, node) for node in nodes_of(place, facts)]
    return closed_over(place, facts) or (nodes[0] if nodes and all(nodes) else None)


def why_not(place: Place, question: Question, facts: Facts) -> set[str]:
    # 5.7: "C exists only with a non-empty key, its switch open, budget left, and no `external: never` on the request."
    away = place[0] == "C" and (not facts.c_has_key or question.hints.external == "never")
    table = question.asked.by_tier if question.asked else {}
    if away or not nodes_of(place, facts) or (table and place[0] not in table):
        return {"never"}
    if stopped_by(place, facts) or place[0] in facts.over_budget:
        return {"switch"} if stopped_by(place, facts) else {"budget"}
    whys = [why_not_node(node, place, question, facts) for node in nodes_of(place, facts)]
    return set().union(*whys) if all(whys) else set()


def why_not_node(node: Node, place: Place, question: Question, facts: Facts) -> set[str]:
    # 5.8: "A tier that lacks what a request needs (…, a model) is unavailable to it"
    model = (question.asked and question.asked.by_tier.get(place[0])) or question.model
    if model not in WORDS and model not in node.models:
        return {"never"}
    if node.id in question.lacks or closed_over(place, facts, node):
        return {"lack"} if node.id in question.lacks else {"switch"}
    # 5.7: "A stopped node that may be started is available."
    return set() if node.state in ("ready", "starting", "stopped") else {str(node.state)}
