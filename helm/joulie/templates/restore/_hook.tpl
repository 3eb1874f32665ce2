{{/* Not empty where an uninstall has to wake nodes. */}}
{{- define "joulie.uninstall.wakes" -}}
{{- if and .Values.uninstall.enabled .Values.operator.enabled (include "joulie.sleep.enabled" .) }}true{{ end -}}
{{- end -}}

{{/* Annotations of objects that exist during an uninstall only. Takes the weight: lower ones are created first. */}}
{{- define "joulie.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* A Job that runs files/restore.py. Takes (list . job command weight component); the component is that of the DaemonSet to verify. */}}
{{- define "joulie.restoreJob" -}}
{{- $root := index . 0 -}}
{{- $job := index . 1 -}}
{{- $command := index . 2 -}}
{{- $component := index . 4 -}}
{{- $name := include "joulie.restore.name" $root -}}
{{- $uninstall := $root.Values.uninstall -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}-{{ $job }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "joulie.labels" (list $root "uninstall") | nindent 4 }}
  annotations:
    helm.sh/hook: pre-delete
    helm.sh/hook-weight: {{ index . 3 | quote }}
    # Deleted in any case: a Job that Helm has timed out on must not run beside the next attempt.
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
    # Helm (3.18 and later) prints the Job's log.
    helm.sh/hook-output-log-policy: hook-failed
spec:
  # The program retries by itself; a second pod would double the time.
  backoffLimit: 0
  # Beyond the program's own deadline: time to start, and to report.
  activeDeadlineSeconds: {{ add $uninstall.timeoutSeconds 60 }}
  template:
    metadata:
      labels:
        {{- include "joulie.podLabels" (list $root "uninstall") | nindent 8 }}
    spec:
      serviceAccountName: {{ $name }}
      restartPolicy: Never
      hostNetwork: {{ $root.Values.agent.hostNetwork }}
      {{- if $root.Values.agent.hostNetwork }}
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      securityContext:
        seccompProfile:
          type: RuntimeDefault
      {{- include "joulie.placement" (list $root $uninstall) | nindent 6 }}
      containers:
        - name: {{ $job }}
          image: {{ include "joulie.image" (include "joulie.node.image" $root | fromYaml) }}
          imagePullPolicy: {{ (include "joulie.node.image" $root | fromYaml).pullPolicy }}
          command: [python3, /chart/restore.py, {{ $command }}]
          env:
            {{- include "joulie.identityEnv" $root | nindent 12 }}
            - name: OPERATOR_DEPLOYMENT
              value: {{ if $root.Values.operator.enabled }}{{ include "joulie.operator.name" $root }}{{ else }}""{{ end }}
            - name: AGENT_DAEMONSET
              value: {{ if eq $root.Values.agent.mode "daemonset" }}{{ include "joulie.agent.name" $root }}{{ else }}""{{ end }}
            - name: RESTORE_DAEMONSET
              value: {{ include "joulie.fullname" $root }}-{{ $component }}
            - name: RESTORE_SELECTOR
              value: {{ include "joulie.selectorLabels" (list $root $component) | replace ": " "=" | replace "\n" "," | quote }}
            - name: TIMEOUT_SECONDS
              value: {{ $uninstall.timeoutSeconds | quote }}
            {{- include "joulie.env" (list dict $uninstall.extraEnv) | nindent 12 }}
          terminationMessagePolicy: FallbackToLogsOnError
          securityContext:
            {{- include "joulie.unprivileged" $root | nindent 12 }}
          resources:
            requests:
              cpu: 20m
              memory: 64Mi
              ephemeral-storage: 16Mi
            limits:
              memory: 256Mi
              ephemeral-storage: 256Mi
          volumeMounts:
            - name: program
              mountPath: /chart
              readOnly: true
      volumes:
        - name: program
          configMap:
            name: {{ $name }}
{{- end -}}
