"""What the buckets show."""

from berth.admission_webhook.views.certificates import CERTIFICATE, CERTIFICATE_KEYS, CertificateView
from berth.admission_webhook.views.cluster import ClusterView
from berth.admission_webhook.views.configurations import ConfigurationView

__all__ = ["CERTIFICATE", "CERTIFICATE_KEYS", "CertificateView", "ClusterView", "ConfigurationView"]
