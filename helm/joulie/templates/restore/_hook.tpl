{{/* Annotations of an object that exists for the uninstall only. Takes its weight: lower ones come first. */}}
{{- define "joulie.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* A Job that runs the program. Takes (list . job command weight component), the component being that of the DaemonSet it asks about. */}}
{{- define "joulie.giveBackJob" -}}
{{- $root := index . 0 -}}
{{- $job := index . 1 -}}
{{- $command := index . 2 -}}
{{- $component := index . 4 -}}
{{- $name := include "joulie.giveBack.name" $root -}}
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
    # Gone in any case: one that Helm has given up must not go on beside whatever is done next.
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
    # Helm (3.18 and later) prints what the Job said.
    helm.sh/hook-output-log-policy: hook-failed
spec:
  # The program tries again by itself; a second pod would only double the time.
  backoffLimit: 0
  # Beyond its own deadline: to start, and to say what is in the way.
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
          image: {{ include "joulie.image" $root.Values.agent.image }}
          imagePullPolicy: {{ $root.Values.agent.image.pullPolicy }}
          command: [python3, /chart/restore.py, {{ $command }}]
          env:
            {{- include "joulie.identityEnv" $root | nindent 12 }}
            - name: OPERATOR_DEPLOYMENT
              value: {{ if $root.Values.operator.enabled }}{{ include "joulie.operator.name" $root }}{{ else }}""{{ end }}
            - name: AGENT_DAEMONSET
              value: {{ if eq $root.Values.agent.mode "daemonset" }}{{ include "joulie.agent.name" $root }}{{ else }}""{{ end }}
            - name: GIVE_BACK_DAEMONSET
              value: {{ include "joulie.fullname" $root }}-{{ $component }}
            - name: GIVE_BACK_SELECTOR
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
            limits:
              memory: 256Mi
          volumeMounts:
            - name: program
              mountPath: /chart
              readOnly: true
      volumes:
        - name: program
          configMap:
            name: {{ $name }}
{{- end -}}
