{{/*
What each component's pods receive and send: name of the policy, ports with the value that names their peers, further pods of the
release, whether they use the API server, and further egress.
*/}}
{{- define "joulie.network.components" -}}
{{- $agentPorts := list -}}
{{- if .Values.agent.power.enabled -}}
{{- $agentPorts = append $agentPorts (dict "port" "metrics" "from" "metricsFrom") -}}
{{- end -}}
{{- if and .Values.agent.resourceManager.enabled (eq .Values.agent.mode "daemonset") -}}
{{- $agentPorts = concat $agentPorts (list (dict "port" "node-agent" "from" "metricsFrom") (dict "port" "resources" "from" "metricsFrom")) -}}
{{- end -}}
{{- if include "joulie.holders.enabled" . -}}
{{- $agentPorts = append $agentPorts (dict "port" "holders" "from" "metricsFrom") -}}
{{- end -}}
{{- if include "joulie.startHook.enabled" . -}}
{{- $agentPorts = append $agentPorts (dict "port" "start-hook" "from" "metricsFrom") -}}
{{- end -}}
{{- $operatorPorts := list (dict "port" "metrics" "from" "metricsFrom") -}}
{{- if .Values.operator.ui.enabled -}}
{{- $operatorPorts = append $operatorPorts (dict "port" "ui" "from" "uiFrom") -}}
{{- end -}}
{{- $components := list -}}
{{- if .Values.operator.enabled -}}
{{- $components = append $components (dict "component" "operator" "name" (include "joulie.operator.name" .) "api" true "ingress" $operatorPorts) -}}
{{- end -}}
{{- if .Values.extender.enabled -}}
{{- $components = append $components (dict "component" "extender" "name" (include "joulie.extender.name" .) "api" true "ingress" (list (dict "port" "http" "from" "schedulerFrom" "component" "test") (dict "port" "metrics" "from" "metricsFrom"))) -}}
{{- $extender := dict "podSelector" (dict "matchLabels" (include "joulie.selectorLabels" (list . "extender") | fromYaml)) -}}
{{- $components = append $components (dict "component" "test" "name" (printf "%s-test" (include "joulie.fullname" .)) "egress" (list (dict "ports" (list (dict "port" "http")) "to" (list $extender)))) -}}
{{- end -}}
{{- if include "joulie.outofband.enabled" . -}}
{{- $components = append $components (dict "component" "outofband" "name" (include "joulie.outofband.name" .) "api" true "ingress" (list (dict "port" "metrics" "from" "metricsFrom")) "egress" .Values.networkPolicy.bmcEgress) -}}
{{- end -}}
{{- if .Values.ven.enabled -}}
{{- $components = append $components (dict "component" "ven" "name" (include "joulie.ven.name" .) "api" true "ingress" (list (dict "port" "metrics" "from" "metricsFrom")) "egress" .Values.networkPolicy.vtnEgress) -}}
{{- end -}}
{{- if .Values.agent.enabled -}}
{{- $components = append $components (dict "component" "agent" "name" (include "joulie.agent.name" .) "api" true "ingress" $agentPorts "egress" .Values.networkPolicy.agentEgress) -}}
{{- if .Values.uninstall.enabled -}}
{{- $components = append $components (dict "component" "uninstall" "name" (printf "%s-uninstall" (include "joulie.fullname" .)) "api" true) -}}
{{- $components = append $components (dict "component" "restore" "name" (include "joulie.restore.name" .)) -}}
{{- if include "joulie.watchdog.enabled" . -}}
{{- $components = append $components (dict "component" "restore-watchdog" "name" (printf "%s-watchdog" (include "joulie.restore.name" .))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $components -}}
{{- end -}}
