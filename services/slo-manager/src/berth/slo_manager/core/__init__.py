"""The decisions of slo-manager: values in, values out."""
