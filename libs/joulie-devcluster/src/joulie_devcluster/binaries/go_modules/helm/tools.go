//go:build tools

// Package tools pins the Helm client that the chart's tests build.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
