//go:build tools

// Package tools pins cyclonus, which tells what NetworkPolicies allow.
package tools

import _ "github.com/mattfenwick/cyclonus/cmd/cyclonus"
