"""The demo: a control plane, a simulated cluster, Joulie and a workload, watched for a few minutes."""
