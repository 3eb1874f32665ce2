//go:build tools

// Package tools pins the KWOK controller that the development cluster builds.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
