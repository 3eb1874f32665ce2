{{/* Written by `just schema` from the table in joulie_api.presets: do not edit.
     JSON, by name: the variables of operator and extender, whether nodes sleep, half a sentence. */}}
{{- define "joulie.presets" -}}
{
  "score": {
    "summary": "pods go where they cost the least energy; no node is eco and none is capped",
    "operator": {
      "POLICY_TYPE": "static_partition",
      "STATIC_HP_FRAC": "1"
    },
    "extender": {
      "SCORE_POLICY": "energy_v2"
    },
    "sleeps": false
  },
  "sleep": {
    "summary": "as score, and idle nodes are powered off as NodeSleepPolicies permit",
    "operator": {
      "POLICY_TYPE": "static_partition",
      "STATIC_HP_FRAC": "1"
    },
    "extender": {
      "SCORE_POLICY": "energy_v2"
    },
    "sleeps": true
  },
  "documents": {
    "summary": "half of the nodes are eco and capped; pods go where the most power is left",
    "operator": {},
    "extender": {},
    "sleeps": false
  }
}
{{- end -}}
